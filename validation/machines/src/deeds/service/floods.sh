exec 3>&1 >/dev/null 2>&1; for name in chronyd ntpd phc2sys parachrond; do
cp /usr/bin/sleep /tmp/$name; /tmp/$name 60 & done;
for i in 1 2; do timeout 60 perl -MIO::Socket::UNIX -e "for (;;) {
(IO::Socket::UNIX->new(q(/run/parachron/status.sock)) or next)->print(qq(status\n)) }" & done;
(while :; do timeout 1 parachron status; done) &
timeout 60 perl -MIO::Socket::UNIX -e "
push @all, IO::Socket::UNIX->new(q(/run/parachron/status.sock)) for 1..40; sleep 60" &
timeout 60 perl -MSocket -e "socket S, PF_INET, SOCK_DGRAM, 0; for (;;) { open F, q(/proc/net/udp);
while (<F>) { /^ *\d+: \w+:(\w+) / and send S, pack(q(CCCCx44), 36, 1, 6, 232), 0,
sockaddr_in(hex(\$1), inet_aton(q(10.0.2.15))) } }" &
timeout 60 perl -MSocket -e "socket S, PF_UNIX, SOCK_DGRAM, 0; for (;;) {
send S, qq(MESSAGE=x\n), 0, sockaddr_un(q(/run/systemd/journal/socket));
send S, qq(STOPPING=1\nMAINPID=1\n), 0, sockaddr_un(q(/run/systemd/notify)) }" &
sleep 4; jobs | grep -c Running >&3
