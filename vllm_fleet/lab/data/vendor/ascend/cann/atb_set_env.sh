# A stand-in of the lab for NNAL's script.
export ATB_HOME_PATH=/usr/local/Ascend/nnal/atb/latest/atb/cxx_abi_1
export LD_LIBRARY_PATH=$ATB_HOME_PATH/lib:$LD_LIBRARY_PATH
export ATB_STREAM_SYNC_EVERY_KERNEL_ENABLE=0
