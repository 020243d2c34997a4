#!/bin/busybox sh
# The first program in a disposable guest: loads the modules, runs the
# commands, and sends one record for each over the second serial port (their
# format: records.rs). The guest powers off in any case; each command has a
# time limit here, and QEMU has one outside.

/bin/busybox --install -s /bin
export PATH=/bin:/usr/bin:/usr/sbin HOME=/tmp
export CLOCKSOURCE=/sys/devices/system/clocksource/clocksource0/current_clocksource
export RTC=/sys/class/rtc/rtc0
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp
# Raw: a line feed must not become two bytes, nor a command be sent back.
stty -F /dev/ttyS1 raw -echo

# Seconds since boot, to 10 ms.
uptime_s() { cut -d ' ' -f 1 /proc/uptime; }

# record NAME LIMIT_S COMMAND...
record() {
    name=$1 limit_s=$2
    shift 2
    started=$(uptime_s)
    timeout "$limit_s" "$@" </dev/null >/tmp/stdout 2>/tmp/stderr
    status=$?
    ended=$(uptime_s)
    {
        echo "@record $name $status $started $ended" \
            "$(wc -c </tmp/stdout) $(wc -c </tmp/stderr)"
        cat /tmp/stdout /tmp/stderr
        echo
    } >/dev/ttyS1
}

# The commands on standard input, one per line: NAME LIMIT_S COMMAND...
run_commands() {
    while read -r name limit_s command; do
        echo "init: $name"
        record "$name" "$limit_s" sh -c "$command"
    done
}

while read -r module; do
    insmod "/modules/$module" || echo "init: $module was not loaded"
done </modules/order

run_commands </commands

# A guest with a network card gets further commands over the records' port.
# Its serial port on PCI is for the output of background programs.
if [ -e /sys/class/net/eth0 ]; then
    ip address add 10.0.2.15/24 dev eth0
    ip link set lo up
    ip link set eth0 up
    export OUTPUT=/dev/$(ls /sys/bus/pci/devices/*/tty | grep '^ttyS')
    stty -F "$OUTPUT" raw -echo
    # Open before the host is notified, so that nothing it sends is lost.
    exec 3</dev/ttyS1
    record ready 10 true
    run_commands <&3
fi

poweroff -f
