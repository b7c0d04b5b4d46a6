LOG=/var/log/ascend_seclog/ascend_${PART}_install.log
archive_flags "$@"
echo "$PART $VERSION $*" >>"$LAB/calls"
MACHINE=$(uname -m)
if [ "$GENERATION" = 2 ]; then
    top=$ROOT/cann-$VERSION
    link=$ROOT/cann
else
    top=$ROOT/ascend-toolkit/$VERSION
    link=$ROOT/ascend-toolkit/latest
fi
formed=$top/$MACHINE-linux

action=
for word in "$@"; do
    case $word in
    --install | --full | --devel | --upgrade) action=${word#--} ;;
    --quiet | -q) quiet=1 ;;
    --install-for-all | --nox11) ;;
    *) fail "ERR_NO:0x0004;ERR_DES: unknown parameter $word" ;;
    esac
done
[ -n "$quiet" ] || fail "the stand-in asks nobody: --quiet is missing"
common_faults

installed() {
    sed -n 's/^version=//p' "$link/$MACHINE-linux/ascend_toolkit_install.info" 2>/dev/null
}

older() {
    [ "$1" != "$2" ] && [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]
}

record() {
    mkdir -p "$formed"
    printf '%s\n' "package_name=$1" "version=$VERSION" innerversion=V100R001C22SPC001B231 \
        "compatible_version=[V100R001C15],[V100R001C18]" "arch=$MACHINE" os=linux "path=$formed"
}

case $PART in
toolkit)
    seen=$(installed)
    if [ "$action" = upgrade ]; then
        [ -n "$seen" ] || fail "ERR_NO:0x0080;ERR_DES: the toolkit is not installed"
        [ "$GENERATION" = 1 ] || ! older "$VERSION" "$seen" || fail "the version is lower than the installed one"
        rm -rf "$(readlink -f "$link")"
    elif [ "$GENERATION" = 2 ] && [ -n "$seen" ] && older "$VERSION" "$seen"; then
        fail "the version is lower than the installed one"
    fi
    record Ascend-cann-toolkit >/dev/null
    record Ascend-cann-toolkit >"$formed/ascend_toolkit_install.info"
    payload | tar xz -C "$top"
    sed -i "s|@TOP@|$link|g" "$top/set_env.sh"
    mkdir -p "$top/lib64" "$top/opp" "$(dirname "$link")"
    ln -sfn "$top" "$link"
    mkdir -p /etc/Ascend "$ROOT/ascend-toolkit"
    echo "Toolkit_Install_Path_Param=$ROOT" >/etc/Ascend/ascend_cann_install.info
    if [ "$GENERATION" = 2 ]; then
        ln -sfn "$link" "$ROOT/ascend-toolkit/latest"
        ln -sfn "$link/set_env.sh" "$ROOT/ascend-toolkit/set_env.sh"
    else
        rm -f "$ROOT/ascend-toolkit/set_env.sh"
        cp "$top/set_env.sh" "$ROOT/ascend-toolkit/set_env.sh"
    fi ;;
ops)
    [ "$(installed)" = "$VERSION" ] || fail "the toolkit $VERSION is not installed"
    [ "$action" != upgrade ] || [ -f "$formed/ascend_ops_install.info" ] || fail "ERR_NO:0x0080;ERR_DES: not installed"
    mkdir -p "$formed"
    record "Ascend-cann-$CHIP-ops" >"$formed/ascend_ops_install.info" ;;
kernels)
    [ "$(installed)" = "$VERSION" ] || fail "the toolkit $VERSION is not installed"
    mkdir -p "$top/opp_kernel"
    printf '%s\n' Version=8.3.T5.0.B028 "version_dir=$VERSION" >"$top/opp_kernel/version.info" ;;
nnal)
    [ -n "$ASCEND_HOME_PATH" ] || fail "ASCEND_HOME_PATH is not set: source set_env.sh of the toolkit first"
    place=$ROOT/nnal/atb/$VERSION
    mkdir -p "$place/atb/cxx_abi_1/lib"
    printf '%s\n' "    Ascend-cann-atb : $VERSION" "    Ascend-cann-atb Version : $VERSION.B020" >"$place/version.info"
    ln -sfn "$place" "$ROOT/nnal/atb/latest"
    payload | tar xz -C "$ROOT/nnal"
    mv "$ROOT/nnal/atb_set_env.sh" "$ROOT/nnal/atb/set_env.sh" ;;
esac
say "[$PART] install success"
