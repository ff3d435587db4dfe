// Package live keeps the rules of an engine as they are at their source, while takes go on.
//
// [Live] reads each document that a source delivers, whole, and only when all of it is good puts it in place of the rules
// before, with one pointer: no take ever sees half of a change, or none of the rules. A document that is bad, and a source
// that fails, leave the rules as they are; that is logged once, counted, and told by [Live.Status]. What a change did to
// each rule goes to the log and to an [Audit] that programs can ask.
//
// Two sources are here: [File], which programs cannot change, and [Memory], for rules that are part of a program and that
// can be changed as long as it runs. Others are where what they talk to is: see package source.
//
// It imports packages rules and source, and fsnotify, which tells when a directory has changed.
package live
