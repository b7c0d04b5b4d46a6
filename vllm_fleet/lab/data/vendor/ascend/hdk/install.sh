LOG=/var/log/ascend_seclog/ascend_install.log
archive_flags "$@"
echo "$PART $VERSION $*" >>"$LAB/calls"

action=
for word in "$@"; do
    case $word in
    --full | --run | --devel | --docker | --upgrade | --uninstall)
        [ -z "$action" ] || fail "ERR_NO:0x0004;ERR_DES: only one type may be given"
        action=${word#--} ;;
    --quiet) quiet=1 ;;
    --install-for-all) for_all=1 ;;
    --nox11 | --install-path=*) ;;
    *) fail "ERR_NO:0x0004;ERR_DES: unknown parameter $word" ;;
    esac
done
[ "$action" != upgrade ] || [ -z "$for_all" ] || fail "ERR_NO:0x0004;ERR_DES: --install-for-all with --upgrade"
[ "$action" != uninstall ] || [ -z "$quiet" ] || fail "ERR_NO:0x0004;ERR_DES: --quiet with --uninstall"
[ "$action" = uninstall ] || [ -n "$quiet" ] || fail "the stand-in asks nobody: --quiet is missing"
command -v lspci >/dev/null || missing=lspci,
command -v ifconfig >/dev/null || rpm -q net-tools >/dev/null 2>&1 ||
    dpkg -s net-tools >/dev/null 2>&1 || missing=${missing}ifconfig
[ -z "$missing" ] || fail "The list of missing tools: $missing"
getent passwd HwHiAiUser >/dev/null || fail "ERR_NO:0x0091;ERR_DES: HwHiAiUser not exists! Please add HwHiAiUser"
if [ "$action" = full ] && grep -qx UserName=root "$INFO" 2>/dev/null; then
    fail "ERR_NO:0x0091;ERR_DES: username not permission for root, check $INFO"
fi
[ "$action" != upgrade ] || [ -f "$ROOT/$PART/version.info" ] || fail "ERR_NO:0x0080;ERR_DES: $PART is not installed"
common_faults

word=${PART^}
set_key "$INFO" UserName HwHiAiUser
set_key "$INFO" UserGroup HwHiAiUser
set_key "$INFO" "${word}_Install_Type" full
set_key "$INFO" "${word}_Install_Path_Param" "$ROOT"
[ "$PART" != driver ] || set_key "$INFO" Driver_Install_For_All yes
[ "$FAULT" != half ] || fail "Driver_ko_install failed, details in: /var/log/ascend_seclog/ascend_rebuild.log"

fresh=$([ -f "$ROOT/$PART/version.info" ] || echo 1)
mkdir -p "$ROOT/$PART"
payload | tar xz -C "$ROOT/$PART"
if [ "$PART" = driver ]; then
    mkdir -p "$ROOT"/driver/lib64/{common,driver}
    ln -sfn "$ROOT/driver/tools/npu-smi" /usr/local/sbin/npu-smi
    install -m 644 "$ROOT/driver/tools/lab-ascend.service" /etc/systemd/system/lab-ascend.service
    systemctl enable --quiet lab-ascend.service
fi
# A first driver is loaded at once; what replaces something waits for a reboot.
now=$([ -n "$fresh" ] && [ "$PART" = driver ] && echo 1)
[ "$FAULT" != active ] || now=1
[ "$FAULT" != reboot ] || now=
[ "$PART" != firmware ] || say "The firmware of [8] chips are successfully upgraded."
if [ -n "$now" ]; then
    [ ! -x "$ROOT/driver/tools/lab-load" ] || "$ROOT/driver/tools/lab-load" "$PART"
    say "$word package installed successfully! The new version takes effect immediately."
    exit 0
fi
say "$word package installed successfully! Reboot needed for installation/upgrade to take effect!"
exit 2
