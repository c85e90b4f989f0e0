package accesslog

import "time"

// daysBefore is how many days of the year lie before a month.
var daysBefore = [...]int{0, 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365}

// days returns the days from 1970-01-01 to a date of the Gregorian calendar;
// false if there is no such date.
func days(year, month, day int) (int64, bool) {
	if month < 1 || month > 12 || day < 1 || year < 1 || year > 9999 {
		return 0, false
	}
	leap := year%4 == 0 && (year%100 != 0 || year%400 == 0)
	last := daysBefore[month+1] - daysBefore[month]
	if month == 2 && leap {
		last = 29
	}
	if day > last {
		return 0, false
	}
	y := year - 1
	n := y*365 + y/4 - y/100 + y/400 + daysBefore[month] + day - 1
	if leap && month > 2 {
		n++
	}
	return int64(n) - 719162, true
}

// month reads the English name's first three letters; 0 if it is none.
func month(b []byte) int {
	if len(b) < 3 {
		return 0
	}
	switch uint32(b[0]|0x20)<<16 | uint32(b[1]|0x20)<<8 | uint32(b[2]|0x20) {
	case 'j'<<16 | 'a'<<8 | 'n':
		return 1
	case 'f'<<16 | 'e'<<8 | 'b':
		return 2
	case 'm'<<16 | 'a'<<8 | 'r':
		return 3
	case 'a'<<16 | 'p'<<8 | 'r':
		return 4
	case 'm'<<16 | 'a'<<8 | 'y':
		return 5
	case 'j'<<16 | 'u'<<8 | 'n':
		return 6
	case 'j'<<16 | 'u'<<8 | 'l':
		return 7
	case 'a'<<16 | 'u'<<8 | 'g':
		return 8
	case 's'<<16 | 'e'<<8 | 'p':
		return 9
	case 'o'<<16 | 'c'<<8 | 't':
		return 10
	case 'n'<<16 | 'o'<<8 | 'v':
		return 11
	case 'd'<<16 | 'e'<<8 | 'c':
		return 12
	}
	return 0
}

// clfLen is the length of "10/Oct/2000:13:55:36 -0700".
const clfLen = 26

// clfTime reads times in the common form, and remembers the last: a busy log
// has many lines of the same second, and all of one day.
type clfTime struct {
	text   [clfLen]byte
	day    [11]byte
	date   int64 // seconds from 1970 to the day's begin
	value  time.Time
	filled bool
}

// read returns the time that b begins with.
func (t *clfTime) read(b []byte) (time.Time, bool) {
	if len(b) < clfLen {
		return time.Time{}, false
	}
	if t.filled && string(b[:clfLen]) == string(t.text[:]) {
		return t.value, true
	}
	if b[2] != '/' || b[6] != '/' || b[11] != ':' || b[14] != ':' || b[17] != ':' || b[20] != ' ' {
		return time.Time{}, false
	}
	if !t.filled || string(b[:11]) != string(t.day[:]) {
		if digits(b, 2) != 2 || digits(b[7:], 4) != 4 {
			return time.Time{}, false
		}
		date, ok := days(two(b[7:])*100+two(b[9:]), month(b[3:]), two(b))
		if !ok {
			return time.Time{}, false
		}
		copy(t.day[:], b)
		t.date = date * 86400
	}
	if digits(b[12:], 2) != 2 || digits(b[15:], 2) != 2 || digits(b[18:], 2) != 2 {
		return time.Time{}, false
	}
	h, m, s := two(b[12:]), two(b[15:]), two(b[18:])
	n, offset := zone(b[21:clfLen])
	if n != 5 || h > 23 || m > 59 || s > 60 {
		return time.Time{}, false
	}
	t.value = time.Unix(t.date+int64(h*3600+m*60+s-offset), 0).UTC()
	copy(t.text[:], b)
	t.filled = true
	return t.value, true
}

// time assembles what was collected.
func (c *clock) time(loc *time.Location) (time.Time, bool) {
	if c.hasEpoch {
		return time.Unix(c.epoch, int64(c.nano)).UTC(), true
	}
	hour := c.hour
	if c.pm != 0 {
		if hour < 1 || hour > 12 {
			return time.Time{}, false
		}
		hour = hour%12 + 12*int(c.pm-1)
	}
	month, day := c.month, c.day
	if c.yearDay > 0 && (month == 0 || day == 0) {
		month, day = 1, 1
	}
	date, ok := days(c.year, month, day)
	if !ok || hour > 23 || c.min > 59 || c.sec > 60 || c.yearDay > 366 {
		return time.Time{}, false
	}
	if c.yearDay > 0 && c.day == 0 {
		date += int64(c.yearDay - 1)
	}
	seconds := date*86400 + int64(hour*3600+c.min*60+c.sec)
	if c.hasOffset || loc == time.UTC {
		return time.Unix(seconds-int64(c.offset), int64(c.nano)).UTC(), true
	}
	return time.Date(c.year, time.Month(month), day, hour, c.min, c.sec, c.nano, loc).UTC(), true
}
