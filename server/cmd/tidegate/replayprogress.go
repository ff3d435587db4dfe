package main

import (
	"io"
	"os"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/tidegate-go/tidegate/server/internal/accesslog"
)

// newBar returns a progress bar over the bytes of the logs, with the rate and the time that remains; nil where w is no terminal.
func newBar(w io.Writer, readers []*accesslog.Reader) *progressbar.ProgressBar {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	_, size := bytesRead(readers)
	if size == 0 {
		size = -1 // a spinner: nobody knows how much comes through a pipe
	}
	return progressbar.NewOptions64(size,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription("replaying"),
		progressbar.OptionShowBytes(true),
		progressbar.OptionFullWidth(),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionClearOnFinish(),
	)
}

// bytesRead returns how many bytes were read, and how many there are; 0 if that is not known.
func bytesRead(readers []*accesslog.Reader) (read, size int64) {
	known := true
	for _, r := range readers {
		n, of := r.Progress()
		read += n
		size += of
		known = known && of > 0
	}
	if !known {
		size = 0
	}
	return read, size
}
