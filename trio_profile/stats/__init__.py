"""Statistics of samples: intervals, where a curve crosses a level, models of noise."""
