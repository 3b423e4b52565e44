// Package json reads and writes JSON in a few kilobytes of a guest; encoding/json
// costs it 240. Value is what was read, such as a policy's settings; Writer builds
// an answer.
package json
