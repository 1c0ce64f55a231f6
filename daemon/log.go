package daemon

import (
	"io"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/linesman/linesman/config"
)

// NewLogger returns a log that is written to w, with the level and the format of
// the settings, which are valid.
func NewLogger(c config.Config, w io.Writer) *zap.Logger {
	level, err := zapcore.ParseLevel(c.LogLevel)
	if err != nil {
		level = zapcore.InfoLevel
	}
	form := zap.NewProductionEncoderConfig()
	form.TimeKey = "time"
	form.EncodeTime = func(t time.Time, enc zapcore.PrimitiveArrayEncoder) {
		enc.AppendString(t.UTC().Format("2006-01-02T15:04:05.000Z"))
	}
	form.EncodeDuration = zapcore.StringDurationEncoder
	encoder := zapcore.NewJSONEncoder(form)
	if c.LogFormat == "console" {
		form.ConsoleSeparator = " "
		encoder = zapcore.NewConsoleEncoder(form)
	}
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), level))
}
