#!/bin/bash
# Remove the part that this script lies in (a stand-in of the lab).
here=$(cd "$(dirname "$0")/.." && pwd)
part=$(basename "$here")
word=${part^}
info=/etc/ascend_install.info
echo "$part uninstall" >>/var/lib/lab-ascend/calls
sed -i "/^${word}_/d" "$info"
grep -q '_Install_Type=' "$info" || rm -f "$info"
if [ "$part" = driver ]; then
    systemctl disable --quiet lab-ascend.service
    rm -f /etc/systemd/system/lab-ascend.service /usr/local/sbin/npu-smi
    rm -f /dev/davinci* /dev/devmm_svm /dev/hisi_hdc
fi
sed -i "/^$part=/d" /var/lib/lab-ascend/running
rm -rf "$here"
echo "${word} package uninstalled successfully!"
