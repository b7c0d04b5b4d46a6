#!/bin/bash
# Remove the CANN that this script lies in (a stand-in of the lab).
here=$(cd "$(dirname "$0")" && pwd -P)
root=/usr/local/Ascend
echo "cann uninstall $here" >>/var/lib/lab-ascend/calls
for link in "$root/cann" "$root/ascend-toolkit/latest"; do
    [ "$(readlink -f "$link")" != "$here" ] || rm -f "$link"
done
[ -e "$root/ascend-toolkit/set_env.sh" ] && [ -e "$root/ascend-toolkit/latest/." ] || rm -f "$root/ascend-toolkit/set_env.sh"
rm -rf "$here"
rm -f /etc/Ascend/ascend_cann_install.info
echo "[INFO]: uninstall success"
