#!/bin/bash
# Remove NNAL (a stand-in of the lab).
echo "nnal uninstall" >>/var/lib/lab-ascend/calls
rm -rf /usr/local/Ascend/nnal
echo "[INFO]: uninstall success"
