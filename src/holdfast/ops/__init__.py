"""Operations for people: explain, verify, forecast, close, clean up, export."""
