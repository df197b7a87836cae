package main

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/jpeg"
	"runtime"

	"github.com/golda-dev/golda/examples/images/captcha"
	"github.com/golda-dev/golda/examples/images/picture"
)

// W10 is the image application of examples/images, without its files: the
// captchas are drawn beforehand and stay in memory, as do the results.
const (
	photos        = 256
	captchas      = 32 // photos share them
	photoCapacity = 16 // as in the example: decoded images wait there
)

// photo is an image on its way.
type photo struct {
	file []byte // the encoded image
	img  *picture.Canvas
	sum  uint32 // of the resulting PNG file; 0: there is none
	err  error
}

// photoFlow sends each image through the line once.
func photoFlow(impl implementation, o order) (sample, error) {
	all, err := undeveloped(o.commands(photos))
	if err != nil {
		return sample{}, err
	}
	s := shape[*parcel]{steps: photoSteps(), capacity: photoCapacity, deal: byID, codec: parcelCodec(all)}
	result, err := flow(impl.pointers, s, all, 0)
	for _, p := range all {
		err = errors.Join(err, p.photo.fault())
	}
	return result, err
}

func (p *photo) fault() error {
	switch {
	case p.err != nil:
		return p.err
	case p.sum == 0:
		return errors.New("a photo never came out")
	default:
		return nil
	}
}

// undeveloped draws the captchas.
func undeveloped(n int) ([]*parcel, error) {
	painter, err := captcha.NewPainter()
	if err != nil {
		return nil, err
	}
	files := make([][]byte, min(n, captchas))
	for i := range files {
		file, err := painter.JPEG(1, captcha.Small, i)
		if err != nil {
			return nil, fmt.Errorf("drawing a captcha: %w", err)
		}
		files[i] = bytes.Clone(file)
	}
	all := parcels(n)
	for i, p := range all {
		p.photo = &photo{file: files[i%len(files)]}
	}
	return all, nil
}

// photoSteps returns the seven stages, each with as many workers as there are
// processors.
func photoSteps() []step[*parcel] {
	workers := runtime.GOMAXPROCS(0)
	all := []step[*parcel]{{name: "load", workers: workers, do: func(p *parcel) { p.photo.load() }}}
	for _, f := range picture.Filters() {
		all = append(all, step[*parcel]{name: f.Stage, workers: workers, do: func(p *parcel) { f.Apply(p.photo.img) }})
	}
	return append(all, step[*parcel]{name: "save", workers: workers, do: func(p *parcel) { p.photo.save() }})
}

func (p *photo) load() {
	var img image.Image
	if img, p.err = jpeg.Decode(bytes.NewReader(p.file)); p.err != nil {
		p.img = &picture.Canvas{}
		return
	}
	p.img = picture.From(img)
}

func (p *photo) save() {
	var file bytes.Buffer
	if p.err == nil {
		p.err = picture.Encode(&file, p.img)
	}
	p.sum, p.img = crc32.ChecksumIEEE(file.Bytes()), nil
}
