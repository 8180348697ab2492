# Run by root of the sandbox's user namespace. Creates a root file system in memory, and becomes podd in it.
# Arguments: the host name, the disk limit in MiB, and the number of files a process may have open.
ip link set lo up
hostname "$1"
mount -t tmpfs -o "size=$2m,mode=755" tmpfs /mnt
cd /mnt
mkdir -p usr etc dev/shm dev/pts proc sys root run tmp var/tmp home/user outside
chmod 1777 tmp var/tmp dev/shm
chown 1000:1000 home/user

# The tools of this machine, read-only. If /bin is a link to usr/bin, it is a link inside too.
for name in usr bin sbin lib lib32 lib64; do
  if [ -L "/$name" ]; then
    cp -P "/$name" .
  elif [ -d "/$name" ]; then
    mkdir -p "$name"
    mount --rbind "/$name" "$name"
    mount -o remount,bind,ro "$name"
  fi
done
for name in alternatives ld.so.cache; do
  if [ -e "/etc/$name" ]; then cp -RP "/etc/$name" etc; fi
done

for name in null zero full random urandom tty; do
  touch "dev/$name"
  mount --bind "/dev/$name" "dev/$name"
done
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
mount -t proc proc proc
mount -t sysfs sysfs sys

# Its own identity.
printf 'root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n' >etc/passwd
printf 'root:x:0:\ntty:x:5:\nuser:x:1000:\n' >etc/group
printf '127.0.0.1 localhost\n127.0.1.1 %s\n' "$1" >etc/hosts
echo "$1" >etc/hostname
tr -d - </proc/sys/kernel/random/uuid >etc/machine-id

read -r token
(umask 077 && echo "$token" >run/token)
if [ "$(ulimit -Hn)" = unlimited ] || [ "$(ulimit -Hn)" -gt "$3" ]; then ulimit -n "$3"; fi
pivot_root . outside
cd /
umount -l /outside
rmdir /outside
# podd exits if it is not configured within a minute: the server died during the create.
exec /proc/self/fd/3 --streams @agentpod --token-file /run/token --wait-ms 60000 --door 61080 \
  --narrow-kernel-files </dev/null
