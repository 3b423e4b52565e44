package invent

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/berth-dev/berth/host/schedule/oracletest"
)

// Kept is how many cases, from seed 0 on, have their answers kept in a file.
const Kept = 300

// packed is the answers to one case. Sum is that of the case, which is made up
// anew to be compared.
type packed struct {
	Sum     string              `json:"sum"`
	Answers []oracletest.Answer `json:"answers"`
}

func sum(c *oracletest.Case) (string, error) {
	data, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:8]), nil
}

// Pack writes the answers to cases: JSON, zipped, in lines of base64, so that it
// is text to a repository.
func Pack(cases []*oracletest.Case) ([]byte, error) {
	var out bytes.Buffer
	zip, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	lines := json.NewEncoder(zip)
	for _, c := range cases {
		s, err := sum(c)
		if err != nil {
			return nil, err
		}
		if err := lines.Encode(packed{s, c.Answers}); err != nil {
			return nil, err
		}
	}
	if err := zip.Close(); err != nil {
		return nil, err
	}
	var text bytes.Buffer
	for line := range slices.Chunk(out.Bytes(), 57) {
		text.WriteString(base64.StdEncoding.EncodeToString(line) + "\n")
	}
	return text.Bytes(), nil
}

// Unpack makes the cases up again whose answers were packed.
func Unpack(data []byte) ([]*oracletest.Case, error) {
	zip, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, bytes.NewReader(data)))
	if err != nil {
		return nil, err
	}
	var cases []*oracletest.Case
	for lines := json.NewDecoder(bufio.NewReader(zip)); ; {
		var p packed
		if err := lines.Decode(&p); err == io.EOF {
			return cases, nil
		} else if err != nil {
			return nil, err
		}
		c := Case(uint64(len(cases)))
		s, err := sum(c)
		if err != nil {
			return nil, err
		}
		if s != p.Sum {
			return nil, fmt.Errorf("%s is not the case that was answered: write the answers anew (see package kubescheduler)", c.Name)
		}
		c.Answers = p.Answers
		cases = append(cases, c)
	}
}
