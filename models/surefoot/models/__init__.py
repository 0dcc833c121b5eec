"""The wire to models: requests in, checked answers out. Knows neither tools nor tables."""
