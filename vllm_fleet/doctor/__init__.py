"""Examine hosts and name what is wrong; changes nothing anywhere."""
