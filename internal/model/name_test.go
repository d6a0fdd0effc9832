package model

import "testing"

func TestCommandName(t *testing.T) {
	for _, tc := range []struct {
		argv []string
		want string
	}{
		{nil, ""},
		{[]string{"python", "train.py", "--lr", "1"}, "train.py"},
		{[]string{"/usr/bin/python3.11", "-u", "/home/me/exp/train.py"}, "train.py"},
		{[]string{"torchrun", "--nproc-per-node", "8", "train.py", "--config", "base.py"}, "train.py"},
		{[]string{"python", "-m", "torch.distributed.run", "--nproc_per_node=2", "main.py"}, "main.py"},
		{[]string{"python", "/opt/bin/torchrun.py", "main.py"}, "main.py"},
		{[]string{"torchrun", "--nproc-per-node=2", "-m", "pkg.train"}, "train"},
		{[]string{"accelerate", "launch", "--num_processes", "2", "train.py"}, "train.py"},
		{[]string{"deepspeed", "--num_gpus=4", "finetune.py"}, "finetune.py"},
		{[]string{"python", "-m", "pkg.train"}, "train"},
		{[]string{"srun", "-N2", "python", "x.py"}, "x.py"},
		{[]string{"sleep", "5"}, "sleep"},
		{[]string{"./build/trainer", "--data", "x"}, "trainer"},
		{[]string{"bash", "run.sh"}, "bash"},
		{[]string{"python", "-c", "print(1)"}, "python"},
	} {
		if got := CommandName(tc.argv); got != tc.want {
			t.Errorf("CommandName(%q) = %q, want %q", tc.argv, got, tc.want)
		}
	}
}
