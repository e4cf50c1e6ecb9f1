#!/bin/sh
# pgdyno's host collector. It only reads: files of /proc and /sys, df, date, getconf, uname. It
# writes to its standard output, nowhere else, and starts nothing that stays.
#
#   sh collector.sh         a sample for each line "fast|slow|facts|health [PID [FOLDER]]" that it
#                           reads; ends when there are no more
#   sh collector.sh INTERVAL COUNT [PID [FOLDER]]
#                           by hand: COUNT samples, INTERVAL seconds apart; facts first and last
#
# PID is any process of the server (0: not known), such as the one a session has; FOLDER is its data
# directory, where PID alone does not tell. Output: "@sample WHAT TIME" begins a sample, PATH:LINE
# is a line of a file, "@end" ends the sample.
LC_ALL=C
export LC_ALL

# Unix time in ns; whole seconds where date knows no parts of them.
now() {
  time=$(date +%s%N 2>/dev/null)
  case $time in ???????????????????) ;; *) time=$(date +%s)000000000 ;; esac
}

# Files, each line behind its name; what is not there or not ours to read is left out.
lines() {
  grep -s '' "$@" /dev/null
}

# Names of folders and links, as files without a line.
names() {
  for one in "$@"; do [ -e "$one" ] && printf '%s:\n' "$one"; done
}

# The server's processes, from PID or its parent on, the control groups that limit them, its data.
find_server() {
  server='' groups='' files='' data=$2
  [ -n "$1" ] && { read -r line <"/proc/$1/stat"; } 2>/dev/null || return
  set -- $1 ${line##*) }
  files="/proc/$1/stat" server=$1 children=''
  grep -sqxFf "/proc/$1/comm" "/proc/$3/comm" && server=$3
  [ -x "/proc/$server/cwd/." ] && data=/proc/$server/cwd
  { read -r children <"/proc/$server/task/$server/children"; } 2>/dev/null
  for one in $server $children; do
    files="$files /proc/$one/stat /proc/$one/schedstat"
  done
  while IFS=: read -r number kind path; do
    case ",$kind," in
      ,,) find_groups "" "$path" "cpu.stat cpu.max memory.max io.max" ;;
      *,cpu,*) find_groups "/$kind" "$path" "cpu.stat cpu.cfs_quota_us cpu.cfs_period_us" ;;
      *,blkio,*) find_groups "/$kind" "$path" \
        "blkio.throttle.read_bps_device blkio.throttle.write_bps_device" ;;
      *,memory,*) find_groups "/$kind" "$path" memory.limit_in_bytes ;;
    esac
  done <"/proc/$server/cgroup"
  groups="$groups /proc/$server/cgroup"
}

# A group and all above it: HIERARCHY PATH NAMES.
find_groups() {
  path=${2%/}
  while
    for name in $3; do groups="$groups /sys/fs/cgroup$1$path/$name"; done
    [ -n "$path" ]
  do path=${path%/*}; done
}

fast() {
  lines /proc/loadavg /proc/meminfo /proc/diskstats /proc/net/dev /proc/net/snmp \
    /proc/net/netstat /proc/pressure/cpu /proc/pressure/memory /proc/pressure/io \
    /sys/class/powercap/*:*/energy_uj $files $groups
  grep -sE '^(cpu|ctxt|processes|procs_)' /proc/stat /dev/null
  grep -sE '^(pgpg|pswp|pgfault|pgmajfault|pgscan_|pgsteal_|oom_kill)' /proc/vmstat /dev/null
}

slow() {
  fast
  lines /proc/mounts /sys/block/*/dev /sys/class/powercap/*:*/name \
    /sys/class/powercap/*:*/max_energy_range_uj /sys/class/hwmon/hwmon*/name \
    /sys/class/hwmon/hwmon*/temp*_* /sys/devices/system/cpu/cpu*/cpufreq/scaling_cur_freq \
    /sys/devices/system/cpu/cpu*/thermal_throttle/*_throttle_count
  names /sys/class/hwmon/hwmon*/device/nvme*n* /sys/class/hwmon/hwmon*/device/block/*
  [ -n "$data" ] && for place in data: wal:/pg_wal; do
    df -Pk "$data${place#*:}" 2>/dev/null | sed -n "2s|^|/df/${place%%:*}:|p"
    df -Pi "$data${place#*:}" 2>/dev/null | sed -n "2s|^|/inodes/${place%%:*}:|p"
    (cd "$data${place#*:}" 2>/dev/null && pwd -P | sed "s|^|/server/${place%%:*}:|")
  done
}

# What the doctor examines, in addition to a sample.
facts() {
  slow
  sed -n 's|^flags|/proc/cpuinfo:flags|p;/^flags/q' /proc/cpuinfo
  lines /proc/self/mountinfo "/proc/$server/mountinfo" /proc/[0-9]*/stat /proc/[0-9]*/comm \
    /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor \
    /sys/devices/system/cpu/intel_pstate/no_turbo /sys/devices/system/cpu/cpufreq/boost \
    /sys/devices/system/cpu/smt/active /sys/kernel/mm/transparent_hugepage/enabled \
    /sys/kernel/mm/transparent_hugepage/defrag /proc/sys/vm/dirty_* /proc/sys/vm/overcommit_* \
    /proc/sys/vm/swappiness /proc/sys/vm/zone_reclaim_mode /proc/sys/kernel/numa_balancing \
    /proc/sys/kernel/sched_autogroup_enabled /sys/class/dmi/id/sys_vendor \
    /sys/class/dmi/id/product_name /sys/devices/system/clocksource/clocksource0/*_clocksource \
    /sys/block/*/*/dev /sys/block/*/*/start /sys/block/*/*/partition \
    /sys/block/*/queue/rotational /sys/block/*/queue/scheduler /sys/block/*/queue/write_cache \
    /sys/block/*/queue/nr_requests /sys/block/*/queue/rq_affinity /sys/block/*/queue/add_random
  names /sys/devices/system/node/node[0-9]* /sys/devices/system/cpu/cpu[0-9]* \
    /sys/block/*/slaves/* /.dockerenv /run/.containerenv
  printf '/server/pid:%s\n' "$server"
}

# What NVMe disks say of their wear and heat, by whichever tool is there and allowed.
health() {
  for one in /sys/block/nvme*n*; do
    [ -e "$one" ] && one=${one##*/} && printf '/health/%s:\n' "$one" || continue
    case $(command -v nvme || command -v smartctl) in
      *nvme) nvme smart-log --output-format=json "/dev/$one" 2>/dev/null ;;
      *smartctl) smartctl --json --all "/dev/$one" 2>/dev/null ;;
      *) echo none ;;
    esac | sed "s|^|/health/$one:|"
  done
}

sample() {
  now
  printf '@sample %s %s\n' "$1" "$time"
  find_server "$2" "$3"
  case $1 in fast) fast ;; slow) slow ;; facts) facts ;; health) health ;; esac
  echo @end
}

main() {
  if [ ! -r /proc/stat ]; then
    printf '@none %s has no /proc/stat\n' "$(uname -s)"
    exit 1
  fi
  printf '@ready 1 %s %s %s\n' "$(getconf CLK_TCK)" "$(getconf PAGESIZE)" "$(uname -n)"
  if [ $# -eq 0 ]; then
    while read -r what pid folder; do
      sample "$what" "$pid" "$folder"
    done
    exit 0
  fi
  count=0
  while [ "$count" -lt "$2" ]; do
    [ $((count % 10)) -eq 0 ] && what=slow || what=fast
    [ "$count" -eq 0 ] || [ "$count" -eq $(($2 - 1)) ] && what=facts && sample health
    sample "$what" "$3" "$4"
    count=$((count + 1))
    sleep "$1"
  done
}

main "$@"
