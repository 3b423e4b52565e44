// Command v1 packs pods: the node with the most pods scores highest.
package main

import "github.com/berth-dev/berth/sdk"

type fill struct{}

func (fill) Score(_ *sdk.Pod, node *sdk.Node) int64 { return node.Requested("pods") }

func init() { sdk.Priority("Fill", fill{}, sdk.Normalize(sdk.NormalizeMax)) }
func main() {}
