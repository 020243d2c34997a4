#!/bin/busybox sh
# The first program in Xen's control domain: starts the machine as a domain, and
# joins that one's console to the line, the second serial port.

/bin/busybox --install -s /bin
export PATH=/bin:/tools
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp
mkdir -p /dev/pts /run/xen /run/xenstored /run/lock /var/lib/xen /var/lib/xenstored /var/log/xen
mount -t devpts devpts /dev/pts
ln -s /run /var/run
ln -s /run/lock /var/lock
dmesg -n 1

while read -r module; do
    insmod "/modules/$module" || echo "dom0: $module was not loaded"
done </modules/order
mount -t xenfs xenfs /proc/xen

xenstored
xen-init-dom0
xenconsoled
stty -F /dev/ttyS1 raw -echo
if ! xl create -e /domain/settings; then
    cat /var/log/xen/*
    reboot -f
fi
# The domain's console, and the only terminal here.
while [ ! -e /dev/pts/0 ]; do usleep 50000; done
cat /dev/pts/0 >/dev/ttyS1 &
cat /dev/ttyS1 >/dev/pts/0
