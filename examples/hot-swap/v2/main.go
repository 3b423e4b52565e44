// Command v2 turns v1 around: the node with the fewest pods scores highest.
package main

import "github.com/berth-dev/berth/sdk"

type fill struct{}

func (fill) Score(_ *sdk.Pod, node *sdk.Node) int64 { return -node.Requested("pods") }

func init() { sdk.Priority("Fill", fill{}, sdk.Normalize(sdk.NormalizeMinMax)) }
func main() {}
