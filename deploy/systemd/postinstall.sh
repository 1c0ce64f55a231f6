#!/bin/sh
# Makes the user of the units, and has systemd read them. Nothing is enabled or started.
set -e
command -v systemd-sysusers >/dev/null && systemd-sysusers linesman.conf
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
