#!/bin/busybox sh
# The first program in a machine of the table. It loads the modules, then runs
# the commands that come over the console, one a line (their format: line.rs),
# and sends a record for each over the same line (its format: records.rs),
# between whatever the kernel prints there. Who started the machine ends it.

export PATH=/bin:/usr/bin:/usr/sbin HOME=/tmp
export RTC=/sys/class/rtc/rtc0
export CLOCKSOURCE=/sys/devices/system/clocksource/clocksource0/current_clocksource

# Where systemd is the first program, all this has been done.
if [ $$ = 1 ]; then
    /bin/busybox --install -s /bin
    mount -t proc proc /proc
    mount -t sysfs sysfs /sys
    mount -t devtmpfs devtmpfs /dev
    mount -t tmpfs tmpfs /tmp
fi
# Raw: a line feed must not become two bytes, nor a command be sent back.
stty raw -echo
# A kernel's message within a record would damage it; a panic still shows.
dmesg -n 1

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
    # Packed: a serial line passes some 30 kB a second.
    cat /tmp/stdout /tmp/stderr | gzip >/tmp/packed
    heading="@record $name $status $started $ended $(wc -c </tmp/stdout) $(wc -c </tmp/stderr)"
    show
}

# Sends the last record.
show() {
    echo "$heading $(wc -c </tmp/packed)"
    cat /tmp/packed
    echo
}

# The kernel's command line may hold a module's parameters, as microvm's does.
parameters() {
    for word in $(cat /proc/cmdline); do
        case $word in "$1".*) echo "${word#*.}" ;; esac
    done
}
if [ $$ = 1 ]; then
    while read -r module; do
        insmod "/modules/$module" $(parameters "${module%.ko}") ||
            echo "init: $module was not loaded"
    done </modules/order
fi

# A port that is not the console: the kernel prints elsewhere.
for line in $(parameters parachron); do
    case $line in line=*)
        exec 0<>/dev/"${line#line=}" 1>&0
        ;;
    esac
done

if [ -e /sys/class/net/eth0 ]; then
    ip address add 10.0.2.15/24 dev eth0
    ip link set lo up
    ip link set eth0 up
fi

# A serial port on PCI is for the output of background programs. Since Linux 6.5 devices of
# the serial core's own bus are between the card and its terminal.
for port in /sys/class/tty/ttyS*; do
    case "$(readlink -f "$port")" in
    */pci*) export OUTPUT=/dev/${port##*/} ;;
    *) continue ;;
    esac
    stty -F "$OUTPUT" raw -echo
done

# A record begins a line, and systemd has reset the terminal on this one.
echo
record ready 10 true
# By a child of process 1, whose own children end one at a time: each orphan's end would send
# process 1 a SIGCHLD, at which busybox's `read` forgets the part of a line that it has
# (shell/ash.c, readcmd).
(
    last=0
    while read -r number length line; do
        [ -n "$number" ] || continue
        if [ "${#line}" != "$length" ]; then
            record again 10 true
            continue
        fi
        # A serial port that was restored a moment ago drops bytes.
        if [ "$line" = resend ]; then
            show
            continue
        fi
        # Sent again, for the rest of a line that was none of its own.
        [ "$number" != "$last" ] || continue
        last=$number
        rest=${line#* }
        record "${line%% *}" "${rest%% *}" sh -c "${rest#* }"
    done
)
