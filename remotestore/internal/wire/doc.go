// Package wire turns charges, decisions and errors into messages of package storev1 and back, once for the store that asks
// and once for the service that answers, so that the two cannot differ. What comes off the wire is not trusted here: it is
// made into values that the stores refuse where they are not valid.
//
// It may import the root package, storev1 and the standard library.
package wire
