package api

import (
	"bytes"
	"net/http"
	"strconv"
	"time"

	"github.com/berth-dev/berth/host/api/wire"
	"github.com/berth-dev/berth/host/store"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// typed settles what the answer looks like.
func (k *call) typed(stream bool) (wire.Typed, error) {
	f, err := wire.Negotiate(k.r.Header.Get("Accept"), wire.Offered(k.place.kind, stream))
	if err != nil {
		return wire.Typed{}, err
	}
	if k.query.flag("pretty") && f.Media == wire.JSON && !stream {
		f.Pretty = true
	}
	return wire.Typed{Kind: k.place.kind, Version: k.place.version, Format: f, Include: k.query.get("includeObject")}, nil
}

// object answers with one object.
func (k *call) object(code int, t *wire.Typed, obj store.Object) error {
	data, err := t.ObjectShared(obj, func(obj store.Object, format string, encode func(store.Object) ([]byte, error)) ([]byte, error) {
		return k.server.Registry.Shared(k.place.kind, obj, format, encode)
	})
	if err != nil {
		return err
	}
	k.header(t.Format.ContentType())
	return k.write(code, data)
}

func (k *call) get() error {
	t, err := k.typed(false)
	if err != nil {
		return err
	}
	r, err := k.request()
	if err != nil {
		return err
	}
	if _, err := k.server.Registry.Reached(k.query.get("resourceVersion")); err != nil {
		return err
	}
	obj, err := k.server.Registry.Get(k.r.Context(), r)
	if err != nil {
		return err
	}
	return k.object(http.StatusOK, &t, obj)
}

func (k *call) listOrWatch() error {
	if k.info.Verb == "watch" {
		return k.watch()
	}
	t, err := k.typed(false)
	if err != nil {
		return err
	}
	r, err := k.request()
	if err != nil {
		return err
	}
	opts, err := k.query.list(r)
	if err != nil {
		return err
	}
	found, err := k.server.Registry.List(k.r.Context(), r, opts.asList())
	if err != nil {
		return err
	}
	page := &wire.Page{Items: found.Items, Shared: found.Shared, Meta: metav1.ListMeta{
		ResourceVersion: strconv.FormatInt(found.Revision, 10),
		Continue:        found.Continue, RemainingItemCount: found.RemainingItems,
	}}
	return k.page(&t, page)
}

func (k *call) page(t *wire.Typed, page *wire.Page) error {
	k.header(t.Format.ContentType())
	if len(page.Items) < fewItems || t.Format.As != wire.Whole {
		var whole bytes.Buffer
		if err := t.List(&whole, page); err != nil {
			return err
		}
		return k.write(http.StatusOK, whole.Bytes())
	}
	defer k.writeDeadline(answerTime).Stop()
	defer k.doneSoon()()
	out, finish := k.stream(http.StatusOK)
	if err := t.List(out, page); err != nil {
		return err
	}
	return finish()
}

// answerTime is how long a client may take to accept a long answer.
var answerTime = 2 * time.Minute

// fewItems make an answer that is written in one piece.
const fewItems = 64
