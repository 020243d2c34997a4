#!/bin/busybox sh
# The first program of a whole Debian: mounts its disk, adds our programs and
# the line, and hands over to systemd.

/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
while read -r module; do
    insmod "/modules/$module" || echo "init: $module was not loaded"
done </modules/order
mkdir /below /writes /disk
for attempt in 1 2 3 4 5 6 7 8 9 10; do
    [ -b /dev/vda ] && break
    usleep 100000
done
mount -t ext4 -o ro /dev/vda /below
mount -t tmpfs -o size=200M,mode=755 writes /writes
mkdir /writes/upper /writes/work
mount -t overlay -o lowerdir=/below,upperdir=/writes/upper,workdir=/writes/work disk /disk
cp /bin/busybox /bin/parachron /bin/parachrond /bin/guest-clock /disk/usr/bin/
cp -r /packaging /disk/opt/
[ ! -d /packages ] || cp -r /packages /disk/opt/
cp /line /disk/usr/sbin/line
cp /line.service /disk/etc/systemd/system/
mkdir -p /disk/etc/systemd/system/multi-user.target.wants
ln -s ../line.service /disk/etc/systemd/system/multi-user.target.wants/
for name in proc sys dev; do
    mount -o move /$name /disk/$name
done
exec switch_root /disk /sbin/init
