#!/bin/busybox sh
# Joins the domain's console, the newest terminal, to the line, the second serial port:
# a domain that was restored has another one.

for joined in $(cat /tmp/joined 2>/dev/null); do
    kill "$joined" 2>/dev/null
done
until
    console=$(ls /dev/pts | grep -v ptmx | sort -n | tail -n 1)
    [ -n "$console" ]
do
    usleep 50000
done
cat "/dev/pts/$console" >/dev/ttyS1 2>/dev/null &
echo $! >/tmp/joined
cat /dev/ttyS1 >"/dev/pts/$console" 2>/dev/null &
echo $! >>/tmp/joined
