# A stand-in of the lab for the toolkit's script.
export ASCEND_TOOLKIT_HOME=@TOP@
export ASCEND_HOME_PATH=@TOP@
export ASCEND_OPP_PATH=@TOP@/opp
export ASCEND_AICPU_PATH=@TOP@
export TOOLCHAIN_HOME=@TOP@/toolkit
driver=$(grep Driver_Install_Path_Param /etc/ascend_install.info | cut -d= -f2)
if [ -n "$driver" ]; then
    export LD_LIBRARY_PATH=$driver/driver/lib64:$driver/driver/lib64/common:$driver/driver/lib64/driver:$LD_LIBRARY_PATH
fi
export LD_LIBRARY_PATH=@TOP@/lib64:@TOP@/lib64/plugin/opskernel:$LD_LIBRARY_PATH
export PYTHONPATH=@TOP@/python/site-packages:$PYTHONPATH
export PATH=@TOP@/bin:@TOP@/compiler/ccec_compiler/bin:$PATH
