package api_test

import (
	"errors"
	"testing"

	"github.com/berth-dev/berth/host/api/apitest"
)

func TestAHealthCheckIsLeftOutWhereAsked(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t, apitest.With(func(p *apitest.Parts) { p.API.Ready = func() error { return errors.New("not yet") } }))
	client := httpClient(t, s)
	for _, tt := range []struct {
		path string
		code int
		want string
	}{
		{"/readyz", 500, "[-]ready failed: not yet\nready check failed\n"},
		{"/readyz?exclude=etcd", 500, "[-]ready failed: not yet\nready check failed\n"},
		{"/readyz?exclude=ready", 200, "ok"},
		{"/readyz?exclude=etcd&exclude=ready&verbose", 200, "[+]ready excluded: ok\nwarn: no check to exclude is called [\"etcd\"]\nreadyz check passed\n"},
		{"/livez?exclude=ping&verbose", 200, "[+]ping excluded: ok\nlivez check passed\n"},
	} {
		if code, text := send(t, client, "GET", s.URL+tt.path, "", "", ""); code != tt.code || text != tt.want {
			t.Errorf("%s = %d %q, want %d %q", tt.path, code, text, tt.code, tt.want)
		}
	}
}
