//go:build !linux

package live

import (
	"io/fs"
	"time"
)

// changeTime returns when a file's contents were last changed.
func changeTime(info fs.FileInfo) time.Time { return info.ModTime() }
