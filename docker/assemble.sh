#!/bin/sh
# assemble.sh PROGRAM DIRECTORY: creates the root file system of an image that contains only PROGRAM, its shared libraries,
# the CA certificates, one user and a directory for state. The dpkg records of the packages are copied too, so that
# vulnerability scanners recognise the files.
set -eu

program=$1
image=$2

mkdir -p "$image/etc/ebb" "$image/etc/ssl/certs" "$image/var/lib/dpkg/status.d" "$image/tmp"
chmod 1777 "$image/tmp"
install -D "$program" "$image$program"

# ldd prints `name => path (address)`, and `path (address)` for the loader.
ldd "$program" | grep -o '/[^ ]*' | sort -u >/tmp/libraries
while read -r library; do
  install -D "$(readlink -f "$library")" "$image$library"
done </tmp/libraries

# dpkg on Debian 12 may list a file by its path before or after the merge of /lib into /usr/lib.
package_of() {
  dpkg-query -S "$1" 2>/dev/null || dpkg-query -S "/usr$1" 2>/dev/null || dpkg-query -S "${1#/usr}"
}
while read -r library; do
  package_of "$(readlink -f "$library")"
done </tmp/libraries | sed 's/: .*//; s/:.*//' | sort -u >/tmp/packages
echo ca-certificates >>/tmp/packages
while read -r package; do
  dpkg-query -s "$package" >"$image/var/lib/dpkg/status.d/$package"
  install -D -m 644 "/usr/share/doc/$package/copyright" "$image/usr/share/doc/$package/copyright"
done </tmp/packages

cp /etc/ssl/certs/ca-certificates.crt "$image/etc/ssl/certs/"
echo 'ebb:x:65532:65532:ebb:/var/lib/ebb:/sbin/nologin' >"$image/etc/passwd"
echo 'ebb:x:65532:' >"$image/etc/group"
echo 'hosts: files dns' >"$image/etc/nsswitch.conf"
install -d -o 65532 -g 65532 -m 700 "$image/var/lib/ebb"
