"""Statistics of samples: intervals, when to stop sampling, where a curve crosses a level, models of noise."""
