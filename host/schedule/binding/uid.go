package binding

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
)

func newUID() types.UID { return uuid.NewUUID() }
