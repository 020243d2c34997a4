#!/bin/busybox sh
# The first program in an emulated host: runs one machine under its KVM. The
# host's first virtio port is the line to that machine, the second one leads to
# its QEMU's protocol, the third one to a shell, which answers there what it is told to.

/bin/busybox --install -s /bin
export PATH=/bin:/usr/bin HOME=/tmp LD_LIBRARY_PATH=/machine/lib
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp
dmesg -n 1

while read -r module; do
    insmod "/modules/$module" || echo "host: $module was not loaded"
done </modules/order

while read -r argument; do
    set -- "$@" "$argument"
done </machine/arguments
echo "host: Linux $(uname -r), $(cat /sys/devices/system/clocksource/clocksource0/current_clocksource)"
ip link set lo up
(until nc 127.0.0.1 4444 0<>/dev/vport0p2 1>&0; do usleep 200000; done) 2>/dev/null &
# A port that nobody is connected to has ended.
(while :; do sh 0<>/dev/vport0p3 >/dev/null; usleep 300000; done) &
/machine/lib/ld-linux-x86-64.so.2 /machine/qemu "$@" 0<>/dev/vport0p1 1>&0
echo "host: QEMU ended with $?"
reboot -f
