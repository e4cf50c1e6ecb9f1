"""Files of /proc and /sys of other machines, made by hand from the kernel's documentation."""

from __future__ import annotations

from collections.abc import Mapping

from pgdyno.observe.host.files import ReceivedFiles

# Two sockets with RAPL and memory domains; temperatures of an NVMe disk and of the cores.
BIG_MACHINE: Mapping[str, str] = {
    "/sys/class/hwmon/hwmon0/name": "nvme\n",
    "/sys/class/hwmon/hwmon0/device/nvme0n1": "",
    "/sys/class/hwmon/hwmon0/temp1_input": "41850\n",
    "/sys/class/hwmon/hwmon0/temp1_label": "Composite\n",
    "/sys/class/hwmon/hwmon0/temp1_max": "79850\n",
    "/sys/class/hwmon/hwmon0/temp1_crit": "84850\n",
    "/sys/class/hwmon/hwmon0/temp2_input": "44850\n",
    "/sys/class/hwmon/hwmon0/temp2_label": "Sensor 1\n",
    "/sys/class/hwmon/hwmon1/name": "coretemp\n",
    "/sys/class/hwmon/hwmon1/temp1_input": "-1000\n",
    "/sys/class/hwmon/hwmon1/temp1_label": "Package id 0\n",
    "/sys/class/hwmon/hwmon2/name": "drivetemp\n",
    "/sys/class/hwmon/hwmon2/temp1_input": "\n",
    "/sys/class/hwmon/hwmon3/name": "drivetemp\n",
    "/sys/class/hwmon/hwmon3/device/block/sdb": "",
    "/sys/class/hwmon/hwmon3/temp1_input": "33000\n",
    "/sys/class/powercap/intel-rapl:0/name": "package-0\n",
    "/sys/class/powercap/intel-rapl:0/energy_uj": "1000000\n",
    "/sys/class/powercap/intel-rapl:0/max_energy_range_uj": "262143328850\n",
    "/sys/class/powercap/intel-rapl:0:0/name": "dram\n",
    "/sys/class/powercap/intel-rapl:0:0/energy_uj": "500\n",
    "/sys/class/powercap/intel-rapl:0:0/max_energy_range_uj": "65712999613\n",
    "/sys/class/powercap/intel-rapl:1/name": "package-1\n",
    "/sys/class/powercap/intel-rapl:1/energy_uj": "262143328000\n",
    "/sys/class/powercap/intel-rapl:1/max_energy_range_uj": "262143328850\n",
    "/sys/class/powercap/intel-rapl-mmio:0/name": "package-0\n",
    "/sys/class/powercap/intel-rapl-mmio:0/energy_uj": "7\n",
    "/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "3400000\n",
    "/sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq": "1200000\n",
    "/sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count": "2\n",
    "/sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count": "5\n",
    "/sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count": "9\n",
    "/sys/devices/system/cpu/cpu1/thermal_throttle/package_throttle_count": "9\n",
}


def machine(changed: Mapping[str, str | None] | None = None) -> ReceivedFiles:
    """Return the big machine with some files changed; None removes a file."""
    texts = {**BIG_MACHINE, **(changed or {})}
    return ReceivedFiles({path: text for path, text in texts.items() if text is not None})
