# Starts one sandbox and records how it ended: `sh supervise.sh EXIT_FILE HOST_NAME DISK_MIB OPEN_FILES`.
# Descriptor 0 gives two lines: an empty one when the users are mapped, then the token. Descriptor 3 is podd.
# Descriptor 4 gets the line of /proc/self/stat; the process that it names becomes podd.
exit_file=$1
shift
unshare --user --keep-caps --fork --pid --mount --uts --ipc --net --cgroup sh -c '
  read -r stat </proc/self/stat && echo "$stat" >&4 && exec 4>&-
  read -r mapped && exec setpriv --reuid 0 --regid 0 --clear-groups sh -euc "$@"
' start "$(cat "$(dirname "$0")/inside.sh")" inside "$@"
echo $? >"$exit_file.new" && mv "$exit_file.new" "$exit_file"
