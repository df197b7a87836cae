package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/png"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/examples/images/captcha"
	"github.com/golda-dev/golda/examples/images/picture"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/stagetest"
)

// rewriteHeader changes the size in the header of a PNG file. A header is a length, its name, width and height, five
// more bytes and a checksum.
func rewriteHeader(file []byte, size uint32) []byte {
	file = bytes.Clone(file)
	header := file[12:29]
	binary.BigEndian.PutUint32(header[4:], size)
	binary.BigEndian.PutUint32(header[8:], size)
	binary.BigEndian.PutUint32(file[29:], crc32.ChecksumIEEE(header))
	return file
}

func TestAnAttemptThatCrashesLeavesTheJobUnchanged(t *testing.T) {
	j := &job{path: "a.jpg", img: image.NewNRGBA(image.Rect(0, 0, 2, 1))}
	before := picture.Clone(j.img)
	f := filtering{filter: picture.Filter{Stage: "half", Apply: func(img *picture.Canvas) {
		img.Pix[0] = 99
		panic("half-way")
	}}, next: behaviour.NewPort[*job]("next")}
	assert.Panics(t, func() { f.HandleCommand(t.Context(), j) })
	assert.Equal(t, before, j.img)
}

func TestAJobCrashesOnceAndOnlyInItsStage(t *testing.T) {
	first, _ := stagetest.HandlerContext(t.Context(), 1)
	j := &job{path: "a.jpg", crashIn: "blur"}
	assert.Panics(t, func() { j.crashOnPurpose(first, "blur") })
	assert.NotPanics(t, func() { j.crashOnPurpose(first, "save") })
	assert.NotPanics(t, func() { j.crashOnPurpose(t.Context(), "blur") }, "not the first attempt")
}

func TestFaultsAffectAboutTheirShareAndEveryStage(t *testing.T) {
	f := faults{seed: 1, share: 0.3, stages: stageNames()}
	hits := map[string]int{}
	c := corpus{n: 10_000, set: captcha.Small, seed: 1}
	for _, name := range c.names() {
		hits[f.victim(name)]++
	}
	assert.InDelta(t, 7000, hits[""], 200)
	for _, name := range stageNames() {
		assert.InDelta(t, 3000/7, hits[name], 100, name)
	}
	assert.Empty(t, faults{seed: 1, stages: stageNames()}.victim("any"))
	assert.NotEmpty(t, faults{seed: 1, share: 1, stages: stageNames()}.victim("any"))
	assert.Equal(t, f.victim("a/x.jpg"), f.victim("b/x.jpg"), "the directory does not matter")
}

func TestFailuresNameStageFileAndReasonInALine(t *testing.T) {
	var f failures
	f.add("in/a.jpg", errors.New(`stage "load": in/a.jpg: image: unknown format`))
	f.add("in/b.jpg", &stage.CrashError{Stage: "blur", Value: "boom", Attempts: 3, Stack: []byte("the stack")})
	f.add("in/c.jpg", stage.ErrStopped)
	var out bytes.Buffer
	f.print(&out)
	assert.Equal(t, `failed: stage "load": in/a.jpg: image: unknown format
failed: stage "blur": in/b.jpg: crashed 3 times: boom
failed: in/c.jpg: `+stage.ErrStopped.Error()+`
the first crash was at:
the stack
`, out.String())
}

func TestDecodeRefusesADirectoryAndAMissingFile(t *testing.T) {
	_, err := decode(t.TempDir(), maxPixels)
	require.EqualError(t, err, "not a regular file")
	_, err = decode(t.TempDir()+"/none", maxPixels)
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "none", "the job names the file")
}

func TestTheWeightOfAnImageIsItsMemory(t *testing.T) {
	p := newPlace(t)
	var deep bytes.Buffer
	require.NoError(t, png.Encode(&deep, image.NewNRGBA64(image.Rect(0, 0, 10, 10))))
	p.fill(t, map[string][]byte{"gray.png": blank(t, 10), "deep.png": deep.Bytes(), "none.txt": []byte("no image")})
	require.Equal(t, 100*(4+4), weigh(filepath.Join(p.in, "gray.png"), maxPixels), "two canvases")
	require.Equal(t, 100*(8+4), weigh(filepath.Join(p.in, "deep.png"), maxPixels), "the decoded image and a canvas")
	require.Zero(t, weigh(filepath.Join(p.in, "none.txt"), maxPixels))
	require.Zero(t, weigh(filepath.Join(p.in, "gray.png"), 99), "it is refused")
}
