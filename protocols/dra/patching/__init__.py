"""Apply ResourceSlicePatches and DeviceTaintRules to devices: matching, precedence, merging. Pure."""
