package json_test

import (
	stdjson "encoding/json"
	"fmt"

	"github.com/berth-dev/berth/sdk/json"
)

func ExampleWriter() {
	j := &json.Writer{}
	j.Open('{').Key("name").Text(`a "b"`).Key("list").Open('[').Int(1).Int(2).Close(']').Close('}')
	fmt.Println(string(j.Bytes()), stdjson.Valid(j.Bytes()))
	// Output: {"name":"a \"b\"","list":[1,2]} true
}
