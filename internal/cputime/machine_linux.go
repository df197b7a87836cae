package cputime

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of /proc/stat: USER_HZ is 100 on all architectures.
const tick = 10 * time.Millisecond

// Machine returns for how long the CPUs of the machine have not been idle,
// added up over all of them, and how many there are; known is false if the
// system does not say. In a container it is the host's.
func Machine() (busy time.Duration, cpus int, known bool) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, false
	}
	return parseStat(string(text))
}

// parseStat reads /proc/stat. The first line is the sum over all CPUs. The
// fields are user, nice, system, idle, iowait, irq, softirq and steal. The time
// of guests is part of user.
func parseStat(text string) (busy time.Duration, cpus int, known bool) {
	first, rest, _ := strings.Cut(text, "\n")
	fields := strings.Fields(first)
	if len(fields) < 5 || fields[0] != "cpu" {
		return 0, 0, false
	}
	for i, field := range fields[1:min(len(fields), 9)] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, 0, false
		}
		if idle := i == 3 || i == 4; !idle {
			busy += time.Duration(n) * tick
		}
	}
	for line := range strings.Lines(rest) {
		if !strings.HasPrefix(line, "cpu") {
			break
		}
		cpus++
	}
	return busy, cpus, cpus > 0
}
