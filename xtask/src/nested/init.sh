#!/bin/busybox sh
# The first program in the throw-away guest: loads the modules, runs the
# commands, and sends one record for each over the second serial port (their
# form: records.rs). Whatever happens, the guest ends; its time limits are
# here, QEMU's is outside.

/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp
export CLOCKSOURCE=/sys/devices/system/clocksource/clocksource0/current_clocksource
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp
# Raw: a line feed must not become two bytes.
stty -F /dev/ttyS1 raw

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

while read -r module; do
    insmod "/modules/$module" || echo "init: $module was not loaded"
done </modules/order

while read -r name limit_s command; do
    echo "init: $name"
    record "$name" "$limit_s" sh -c "$command"
done </commands

poweroff -f
