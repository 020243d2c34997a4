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
join
# A shell on the serial port of the PCI bus, for what is done to the domain. Since Linux 6.5
# devices of the serial core's own bus are between the card and its terminal.
for port in /sys/class/tty/ttyS*; do
    case "$(readlink -f "$port")" in
    */pci*) port=/dev/${port##*/} ;;
    *) continue ;;
    esac
    stty -F "$port" raw -echo
    while :; do
        sh 0<>"$port" >/dev/null
        usleep 300000
    done
done
# The first program must not end.
while :; do sleep 3600; done
