package latest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestLatestKeepsNewestAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n int
		var fail error
		l := New(time.Second, func(context.Context) (int, error) { n++; return n, fail })
		if r := l.Reading(); r.OK {
			t.Fatalf("reading before the first call: %+v", r)
		}
		for range 2 {
			if !l.Ask() {
				t.Fatal("Ask refused while idle")
			}
			synctest.Wait()
		}
		at := l.Reading().At
		fail = errors.New("no such driver")
		time.Sleep(time.Minute)
		l.Ask()
		synctest.Wait()
		r := l.Reading()
		if !r.OK || r.Value != 2 || r.At != at || !errors.Is(r.Err, fail) || r.Stale {
			t.Errorf("after a failed call: %+v, want value 2 of the call before and its time", r)
		}
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

func TestLatestMarksHungCallStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		l := New(time.Second, func(context.Context) (int, error) { <-release; return 7, nil })
		l.Ask()
		time.Sleep(900 * time.Millisecond)
		if r := l.Reading(); r.Stale || r.Waiting == 0 {
			t.Errorf("before the deadline: %+v", r)
		}
		time.Sleep(200 * time.Millisecond)
		if r := l.Reading(); !r.Stale {
			t.Errorf("after the deadline: %+v, want stale", r)
		}
		if l.Ask() {
			t.Error("a second call was started beside the hung one")
		}
		if err := l.Close(); !errors.Is(err, ErrBusy) {
			t.Errorf("Close with a hung call: %v, want ErrBusy", err)
		}
		close(release)
		synctest.Wait()
		if r := l.Reading(); !r.OK || r.Value != 7 || r.Stale {
			t.Errorf("after it came back: %+v", r)
		}
	})
}

func TestLatestCloseCancelsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(time.Minute, func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() })
		l.Ask()
		synctest.Wait()
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if r := l.Reading(); !errors.Is(r.Err, context.Canceled) || r.OK {
			t.Errorf("reading: %+v", r)
		}
	})
}
