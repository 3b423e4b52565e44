package abi

//go:generate flatc --go --gen-onefile --go-namespace fb -o fb berth.fbs
//go:generate mv fb/berth_generated.go fb/berth_gen.go
//go:generate gofmt -w fb/berth_gen.go
