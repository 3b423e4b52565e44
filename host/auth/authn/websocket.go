package authn

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// tokenProtocol is how a browser sends a token: it cannot set the header
// Authorization on a WebSocket, but it can name a protocol.
const tokenProtocol = "base64url.bearer.authorization.k8s.io."

// webSocketToken takes the token out of the protocols of an upgrade and
// removes it from them, so that nobody behind sees or picks it.
func webSocketToken(header http.Header) (token string, shown bool, err error) {
	if !strings.EqualFold(header.Get("Upgrade"), "websocket") {
		return "", false, nil
	}
	protocols := splitList(header.Values("Sec-WebSocket-Protocol"))
	at := slices.IndexFunc(protocols, func(p string) bool { return strings.HasPrefix(p, tokenProtocol) })
	if at < 0 {
		return "", false, nil
	}
	encoded := strings.TrimPrefix(protocols[at], tokenProtocol)
	if len(encoded) > 2*maxToken {
		return "", false, fmt.Errorf("%w: the token is too long", ErrUnauthorized)
	}
	raw, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || len(raw) == 0 {
		return "", false, fmt.Errorf("%w: the token in the protocol is not base64url", ErrUnauthorized)
	}
	rest := slices.Delete(protocols, at, at+1)
	if len(rest) == 0 {
		return "", false, fmt.Errorf("%w: a WebSocket that carries a token must name one more protocol", ErrUnauthorized)
	}
	header.Set("Sec-WebSocket-Protocol", strings.Join(rest, ", "))
	return string(raw), true, nil
}

func splitList(values []string) []string {
	var all []string
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			if part = strings.TrimSpace(part); part != "" {
				all = append(all, part)
			}
		}
	}
	return all
}
