// Package image is the seam between the node agent and the images on its machine.
//
// Besides the seam it holds what needs no machine: normal forms of image names,
// pull secrets (which credentials fit which name), and the choice of what to
// throw away when the disk is full.
package image
