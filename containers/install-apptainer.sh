#!/usr/bin/env bash
# Installs Apptainer on Debian 12, which has no package of it, without touching its libc. Elsewhere take the
# distribution's own package, or your cluster's.
#
#     bash containers/install-apptainer.sh FOLDER && . FOLDER/env.sh
#
# In:    root, and the Debian mirror that this machine's apt uses: 30 MB
# Out:   FOLDER with Apptainer, and env.sh, which puts it on PATH and sets what its last lines explain
#
# Debian's unstable suite has the package, linked against a newer glibc: it is unpacked together with that one.
set -euo pipefail

dest=${1:?usage: install-apptainer.sh FOLDER}
mkdir -p "$dest"
dest=$(cd "$dest" && pwd)
work=$(mktemp -d)
# A second Ctrl-C does not stop the removal, and what cannot be removed fails no build.
trap 'trap "" HUP INT TERM; rm -rf "$work" || true' EXIT

apt-get update -qq
apt-get install -y -qq debootstrap squashfs-tools squashfuse uidmap libcap2-bin patchelf >/dev/null

# An apt configuration of its own, pointing at the unstable suite of the mirror this machine already uses.
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m1 '/debian/*$')
echo "deb $mirror sid main" > "$work/sources.list"
mkdir -p "$work/lists/partial" "$work/debs"
apt=(apt-get -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=/dev/null
     -o "Dir::State::Lists=$work/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=)
"${apt[@]}" update -qq
(cd "$work/debs" && chmod 777 . && "${apt[@]}" download -qq apptainer libc6 libseccomp2 libsqlite3-0)

for deb in "$work"/debs/*.deb; do dpkg -x "$deb" "$work/root"; done
lib=$work/root/usr/lib/x86_64-linux-gnu
rm -rf "$dest"/{bin,etc,var,lib,privlib}
mkdir -p "$dest/lib/x86_64-linux-gnu" "$dest/privlib"
cp -a "$work/root/usr/bin" "$work/root/etc" "$work/root/var" "$dest/"
cp -a "$lib/apptainer" "$dest/lib/x86_64-linux-gnu/"
find "$dest/bin" -type f ! -name '*apptainer*' -delete
cp -a "$lib"/{ld-linux-x86-64.so.2,libc.so.6,libm.so.6,libpthread.so.0,libdl.so.2,libresolv.so.2,librt.so.1} \
  "$lib"/{libnss_dns.so.2,libnss_files.so.2} "$lib"/libseccomp.so.2* "$lib"/libsqlite3.so.0* "$dest/privlib/"

for elf in "$dest/bin/apptainer" "$dest/lib/x86_64-linux-gnu/apptainer/bin/starter"; do
  patchelf --set-interpreter "$dest/privlib/ld-linux-x86-64.so.2" \
    --force-rpath --set-rpath "$dest/privlib" "$elf"
done
# The starter looks for its prefix one folder up from libexec, where Debian has two.
for folder in etc var bin; do ln -s "../$folder" "$dest/lib/$folder"; done
ln -s . "$dest/lib/lib"
ln -sfn apptainer "$dest/bin/singularity"

# A virtual machine's root may lack CAP_SYS_RESOURCE; ask only for the capabilities that it has.
sed -i 's/^root default capabilities = .*/root default capabilities = file/' "$dest/etc/apptainer/apptainer.conf"
bounding=$(capsh --print | sed -n 's/^Bounding set =//p' | tr a-z A-Z)
python3 -c 'import json,sys; json.dump({"users": {"root": sys.argv[1].split(",")}}, open(sys.argv[2], "w"))' \
  "$bounding" "$dest/etc/apptainer/capability.json"

cat > "$dest/env.sh" <<EOF
export PATH=$dest/bin:\$PATH
export APPTAINER_CACHEDIR=$dest/cache APPTAINER_TMPDIR=$dest/tmp
mkdir -p "\$APPTAINER_CACHEDIR" "\$APPTAINER_TMPDIR"
# Root builds bind the host's /tmp and home read-write into %post by default: a clean-up there would delete host files.
export APPTAINER_NO_MOUNT=tmp,home
export APPTAINER_DROP_CAPS=CAP_SYS_RESOURCE
EOF
"$dest/bin/apptainer" --version
