// Package chart has the library that pages draw their charts with, uPlot 1.6.32 (MIT, https://github.com/leeoniya/uPlot), as its
// package on npm has it. It imports nothing.
package chart

import _ "embed" // for the files

// Script and Style are uPlot's.
var (
	//go:embed uplot/uPlot.iife.min.js
	Script string
	//go:embed uplot/uPlot.min.css
	Style string
)
