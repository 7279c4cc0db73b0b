// Package slices is part of Go since 1.21.
package slices

func Contains[E comparable](all []E, wanted E) bool {
	for _, each := range all {
		if each == wanted {
			return true
		}
	}
	return false
}
