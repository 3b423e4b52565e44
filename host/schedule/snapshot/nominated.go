package snapshot

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// nomination is a pod for which room is being made on a node.
type nomination struct {
	pod  *Pod
	node string
}

// Nominate notes that room is made for a pod on a node.
func (c *Cluster) Nominate(pod *Pod, node string) {
	c.nominated[pod.UID()] = nomination{pod: pod, node: node}
}

// Unnominate forgets it, and returns what it was: nil and empty for none.
func (c *Cluster) Unnominate(uid types.UID) (pod *Pod, node string) {
	was := c.nominated[uid]
	delete(c.nominated, uid)
	return was.pod, was.node
}

// Nominations counts them: most cycles see none.
func (c *Cluster) Nominations() int { return len(c.nominated) }

// NominatedNode is where room is made for a pod, empty for none.
func (c *Cluster) NominatedNode(uid types.UID) string { return c.nominated[uid].node }

// Nominated lists the pods for which room is made by slot, in the order of
// their identities, without the pod itself and those of lower priority.
func (c *Cluster) Nominated(besides *Pod) map[int32][]*Pod {
	bySlot := map[int32][]*Pod{}
	for uid, n := range c.nominated {
		slot, ok := c.slots[n.node]
		if !ok || uid == besides.UID() || n.pod.Priority() < besides.Priority() {
			continue
		}
		bySlot[slot] = append(bySlot[slot], n.pod)
	}
	for _, pods := range bySlot {
		slices.SortFunc(pods, func(a, b *Pod) int {
			if a.UID() < b.UID() {
				return -1
			}
			return 1
		})
	}
	return bySlot
}

// Lesser lists the pods of lower priority for which room is made on a node.
func (c *Cluster) Lesser(node string, priority int32) []types.UID {
	var list []types.UID
	for uid, n := range c.nominated {
		if n.node == node && n.pod.Priority() < priority {
			list = append(list, uid)
		}
	}
	slices.Sort(list)
	return list
}
