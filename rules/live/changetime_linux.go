package live

import (
	"io/fs"
	"syscall"
	"time"
)

// changeTime returns when a file was last changed: its contents, or what else is known of it, such as its name. An older
// file that is moved into the place of a newer one is a change of that moment.
func changeTime(info fs.FileInfo) time.Time {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		if t := time.Unix(st.Ctim.Unix()); t.After(info.ModTime()) {
			return t
		}
	}
	return info.ModTime()
}
