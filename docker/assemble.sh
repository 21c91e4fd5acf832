#!/bin/sh
# assemble.sh PROGRAM FOLDER: makes the root of an image that can run PROGRAM and nothing else. With it come the libraries
# that it is linked with, the certificates of public authorities, one user, a folder for state, and which Debian
# packages the files are from, so that scanners find them.
set -eu

program=$1
image=$2

mkdir -p "$image/etc/ebb" "$image/etc/ssl/certs" "$image/var/lib/dpkg/status.d" "$image/tmp"
chmod 1777 "$image/tmp"
install -D "$program" "$image$program"

# Lines are `name => path (address)`, and `path (address)` for the loader.
ldd "$program" | grep -o '/[^ ]*' | sort -u >/tmp/libraries
while read -r library; do
  install -D "$(readlink -f "$library")" "$image$library"
done </tmp/libraries

# Debian 12 files may be known by their path before or after the merge of /lib into /usr/lib.
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
