package console

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/png"
	"maps"
	"slices"
)

// small writes a picture again with 256 colours: those that it has most of, but none
// beside another that is nearly the same, as the edges of letters are.
func small(picture []byte) ([]byte, error) {
	from, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		return nil, err
	}
	bounds := from.Bounds()
	count := map[color.RGBA]int{}
	each := func(see func(x, y int, c color.RGBA)) {
		for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
			for x := bounds.Min.X; x < bounds.Max.X; x++ {
				see(x, y, color.RGBAModel.Convert(from.At(x, y)).(color.RGBA))
			}
		}
	}
	each(func(_, _ int, c color.RGBA) { count[c]++ })
	most := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(key(a), key(b)))
	})
	palette := color.Palette{}
	for _, c := range most {
		if len(palette) < 256 && (len(palette) == 0 || apart(c, palette[palette.Index(c)].(color.RGBA)) > 12) {
			palette = append(palette, c)
		}
	}
	nearest := map[color.RGBA]uint8{}
	to := image.NewPaletted(bounds, palette)
	each(func(x, y int, c color.RGBA) {
		i, ok := nearest[c]
		if !ok {
			i = uint8(palette.Index(c))
			nearest[c] = i
		}
		to.SetColorIndex(x, y, i)
	})
	var out bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, to)
	return out.Bytes(), err
}

// apart is by how much two colours differ.
func apart(a, b color.RGBA) int {
	d := func(a, b uint8) int { return max(int(a)-int(b), int(b)-int(a)) }
	return d(a.R, b.R) + d(a.G, b.G) + d(a.B, b.B)
}

func key(c color.RGBA) uint32 { return uint32(c.R)<<16 | uint32(c.G)<<8 | uint32(c.B) }
